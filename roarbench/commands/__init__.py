"""What each command does, by subject; `cli` lists them. What a command needs is imported in it."""
