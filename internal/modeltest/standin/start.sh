#!/usr/bin/env bash
# Starts the model server that others wrote, in the foreground, on 127.0.0.1 only; needs node >= 20.15 and npm.
#   start.sh --install             only installs it
#   start.sh [PORT [FIXTURES]]     default 4820, and fixtures.json beside this file; the key is sk-test-key
# It is installed into AIMOCK_HOME. It says where it listens; SIGTERM or SIGINT stops it.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
home=${AIMOCK_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/aimock-$(sha256sum "$here/package-lock.json" | cut -c1-12)}
if [ ! -e "$home/node_modules/@copilotkit/aimock/package.json" ]; then
  tmp="$home.tmp.$$"
  mkdir -p "$tmp"
  cp "$here/package.json" "$here/package-lock.json" "$tmp/"
  chmod u+w "$tmp"/*
  (cd "$tmp" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2)
  mkdir -p "$(dirname "$home")"
  mv -T "$tmp" "$home" 2>/dev/null || rm -rf "$tmp" # another start was first
fi
if [ "${1:-}" = --install ]; then exit 0; fi
AIMOCK_API_KEYS=sk-test-key AIMOCK_STRICT_TURN_INDEX=1 exec node "$home/node_modules/@copilotkit/aimock/dist/cli.js" -h 127.0.0.1 -p "${1:-4820}" -f "${2:-$here/fixtures.json}" --strict
