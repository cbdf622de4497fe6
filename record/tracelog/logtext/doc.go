// Package logtext is the text form of a log: [Dump] writes the records of a log as text or
// as JSON, a line each; [Assemble] reads such text and writes a log, so that the input of a
// test can be written by hand.
//
// A line is the name of a kind of record, then name=value for each of its fields. A line
// that begins with # is a remark. FORMAT.md specifies the text under "The text form",
// docs/ndjson.md the JSON.
package logtext
