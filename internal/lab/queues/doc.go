// Package queues owns the experiments on queue policies: simulated queues whose
// builds, gates and lanes are decided by the very functions that the lander calls,
// and the same changes with real check commands beside two designs of others. It
// lands nothing outside its own throw-away repositories.
package queues
