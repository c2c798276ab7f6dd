// Package cache owns the build caches that agents read together and write apart: what
// greenward itself built lies below, and what the commands of a workspace write lies in
// a layer of the workspace's own, which goes with it. So whatever an agent puts into a
// cache, no other one builds with it. It owns layers and mounts; where caches are, and
// who runs what in them, is its caller's business.
package cache
