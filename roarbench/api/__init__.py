"""The public interface of `import roarbench`; `roarbench/__init__.py` lists the names."""
