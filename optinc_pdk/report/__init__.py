"""The report of a build: numbers, pictures, tables, and the HTML page."""
