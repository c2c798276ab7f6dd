// Package hubtest is a small GitHub for tests: one repository's pull requests,
// issues, comments, check runs and permissions behind the REST interface, with
// faults by name. Its commits are those of a bare repository that the test gives,
// and every pull request's head stands there under refs/pull/<number>/head, as at
// GitHub; git reaches it by path.
//
// It owns no rule of the bot: it answers as GitHub does, and tells what it was asked.
package hubtest
