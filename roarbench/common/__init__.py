"""Errors, enums, text, files, record hashes, devices and worker processes: what every other package imports."""
