// Package recordtest reads the records of logs in tests, and fails a test where a log cannot be read.
package recordtest

import (
	"bytes"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Open opens the log at a path for Each and Of, which close it.
func Open(t testing.TB, path string) *tracelog.Reader {
	t.Helper()
	return must.Get(tracelog.Open(path))(t)
}

// InMemory opens a log in memory.
func InMemory(t testing.TB, log []byte) *tracelog.Reader {
	t.Helper()
	return must.Get(tracelog.NewReader(bytes.NewReader(log), int64(len(log)), "log"))(t)
}

// Each passes each record of a log on, in the log's order. The next one may overwrite it.
func Each(t testing.TB, log *tracelog.Reader, take func(tracelog.Record)) {
	t.Helper()
	defer log.Close()
	for log.Next() {
		b := log.Block()
		x := tracelog.NewRecord(b.Kind)
		for i := 0; x != nil && i < b.N; i++ { // nil: texts, or the end
			x.Read(b, i)
			take(x)
		}
	}
	must.Do(t, log.Err())
}

// Of returns the records of a type.
func Of[T any](t testing.TB, log *tracelog.Reader) (all []T) {
	t.Helper()
	Each(t, log, func(r tracelog.Record) {
		if r, ok := r.(any).(*T); ok {
			all = append(all, *r)
		}
	})
	return all
}
