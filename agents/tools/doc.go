// Package tools gives a model hands in one workspace: it reads, writes, edits
// and searches files, and runs commands. It owns what each tool accepts, what
// it refuses and how its result reads; the prose for the model stands beside
// each tool as NAME.md, its arguments as NAME.json.
//
// It knows no roles, no model and no git: which tools a role gets, how a call
// arrives and how a task ends (hand_off) belong to package agents, and the list
// of files that git does not ignore is handed in.
//
// Files are reached through os.Root, so that neither ".." nor a symbolic link
// leads out of the workspace; git's own files are out of reach, and what is
// below tasks/ can't be written. The shell is not confined by this: that is the
// work of a sandbox.
package tools
