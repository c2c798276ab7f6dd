// Package hubtest is a small GitHub for tests: one repository's pull requests,
// issues, comments, check runs, releases and permissions behind the REST interface, the
// pages and calls that make an App, signed deliveries, and faults by name in both
// directions. Its commits are those of a bare repository that the test gives, where every
// pull request's head stands under refs/pull/<number>/head, as at GitHub; git reaches it
// by path and over HTTP.
//
// It owns no rule of the bot: it answers as GitHub does, and tells what it was asked. A
// request that GitHub's own description does not have fails the test.
package hubtest
