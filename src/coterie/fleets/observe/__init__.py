"""From what runs today to the journal that the pipeline reads, one module a source."""
