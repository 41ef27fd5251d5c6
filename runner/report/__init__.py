"""Looking at a run: the page report.html, the table on the screen, and what both are made of; all from the run's folder alone."""
