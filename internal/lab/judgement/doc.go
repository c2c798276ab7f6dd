// Package judgement owns the experiments on culprits and constructed trees: `lab green`.
// It draws worlds from a seed, has green/culprit and green/subset work on them, and
// reports figures with their confidence intervals beside what is wanted.
package judgement
