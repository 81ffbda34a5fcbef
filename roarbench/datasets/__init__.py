"""Find, decode and generate the images of data sets."""
