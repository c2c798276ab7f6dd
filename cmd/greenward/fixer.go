package main

// setFixer lets the fixup agent repair snapshots where a model is to be had.
func (c *crew) setFixer() error { return nil }
