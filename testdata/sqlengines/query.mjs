// Runs SQL in DuckDB, or in ClickHouse's engine.
//
//   node query.mjs duckdb|clickhouse < queries
//
// Each line of standard input is a JSON string with one query. Each answer is one line: a JSON array of rows, a row an
// array of texts and nulls; or {"error": "..."}. The line {"ready": true} comes first.

import {mkdtempSync, rmSync} from 'node:fs';
import {createRequire} from 'node:module';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {createInterface} from 'node:readline';

const require = createRequire(import.meta.url);

function text(value) {
  return value === null || value === undefined ? null : String(value);
}

async function duckdb() {
  const {DuckDBInstance} = require('@duckdb/node-api');
  const connection = await (await DuckDBInstance.create(':memory:', {threads: '1'})).connect(); // rows are few
  return async (sql) => (await connection.runAndReadAll(sql)).getRows().map((row) => row.map(text));
}

async function clickhouse() {
  const engine = require('@chdb/lib-linux-x64-gnu');
  const folder = mkdtempSync(join(tmpdir(), 'clickhouse-'));
  process.on('exit', () => rmSync(folder, {recursive: true, force: true}));
  const connection = engine.CreateConnection(folder);
  return async (sql) => {
    const answer = engine.QueryWithConnection(connection, sql, 'JSONCompactStringsEachRow');
    const lines = String(answer ?? '').split('\n').filter((line) => line);
    return lines.map((line) => JSON.parse(line).map((value) => (value === 'ᴺᵁᴸᴸ' ? null : value)));
  };
}

const engines = {duckdb, clickhouse};

function print(value) {
  return new Promise((done) => process.stdout.write(JSON.stringify(value) + '\n', done));
}

const run = await engines[process.argv[2]]();
await print({ready: true});
for await (const line of createInterface({input: process.stdin})) {
  await print(await run(JSON.parse(line)).catch((e) => ({error: e.message})));
}
process.exit(0);
