"""Files: tables in and out, saved objects, scoring of streams and folders."""
