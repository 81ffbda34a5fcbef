NAME = "not-python"
def estimate(model images):
