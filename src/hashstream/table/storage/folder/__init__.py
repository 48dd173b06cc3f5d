"""A table in a folder: a SQLite database, files of features, a lock and a commit marker."""
