#!/usr/bin/env bash
# Starts the GitHub stand-in in the foreground, on 127.0.0.1 only; needs node >= 20, npm and git >= 2.38.
#   start.sh --install    only installs the engine
#   start.sh [--port=N] [--seed=FILE] [--data=DIR] [--info=FILE] [--pure] [--parallel] [--keep-data]
# Environment: GHEMU_WEBHOOK_URL, GHEMU_WEBHOOK_SECRET (fill the seed's placeholders), GHEMU_HOME (where npm installs).
# Prints GHEMU_URL=http://127.0.0.1:PORT and one line of JSON when ready; SIGTERM or SIGINT stops it and removes its data.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
home=${GHEMU_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/ghemu-$(sha256sum "$here/package-lock.json" | cut -c1-12)}
if [ ! -e "$home/node_modules/emulate/package.json" ]; then
  tmp="$home.tmp.$$"
  mkdir -p "$tmp"
  cp "$here/package.json" "$here/package-lock.json" "$tmp/"
  chmod u+w "$tmp"/*
  (cd "$tmp" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2)
  mkdir -p "$(dirname "$home")"
  mv -T "$tmp" "$home" 2>/dev/null || rm -rf "$tmp" # another start was first
fi
if [ "${1:-}" = --install ]; then exit 0; fi
install -m 644 "$here/ghemu.mjs" "$home/ghemu.mjs.$$"
mv -f "$home/ghemu.mjs.$$" "$home/ghemu.mjs"
case " $* " in *" --seed="*) ;; *) set -- "--seed=$here/seed.json" "$@" ;; esac
exec node "$home/ghemu.mjs" "$@"
