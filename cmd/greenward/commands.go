package main

import "slices"

// commands is every word that greenward knows, in the order of its help.
func commands() []command {
	return slices.Concat(
		[]command{demoCommand(), initCommand(), doctorCommand(), runCommand(), workCommand(), serveCommand(), submitCommand(), landCommand()},
		queueCommands(), greenCommands(), runsCommands(), transcriptCommands(),
		[]command{tasksCommand(), handoffsCommand(), auditCommand(), fsckCommand()}, labCommands(),
	)
}
