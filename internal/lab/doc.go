// Package lab owns experiments that measure greenward on real input: what they
// do, what they count and how they report it. It uses the parts that a real run
// uses and builds none of its own.
package lab
