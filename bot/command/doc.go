// Package command reads what people ask for in comments, and says who may ask it.
//
// It owns the spellings (our own, those of bors and rust-bors, Prow, Mergify,
// Trunk and Zuul), the rules by which a line is spoken and not quoted, and the
// role that each verb needs. It knows no forge: who somebody is and what becomes
// of a command belong to bot. Everything here is pure.
package command
