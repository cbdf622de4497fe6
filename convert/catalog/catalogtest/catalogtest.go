// Package catalogtest reads catalogs for tests: a log goes in, its catalog.Catalog comes out.
package catalogtest

import (
	"testing"

	"github.com/cudatrace/cudatrace/convert/catalog"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Of returns the catalog of a log with resolved programs and numbered GPUs.
func Of(t testing.TB, open logtest.Opener) *catalog.Catalog {
	t.Helper()
	return Filtered(t, open, nil)
}

// Filtered returns the catalog of the records that a filter selects.
func Filtered(t testing.TB, open logtest.Opener, filter *tracelog.Filter) *catalog.Catalog {
	t.Helper()
	c := catalog.New(filter)
	if err := c.Read(Reader(t, open), func(float64) {}); err != nil {
		t.Fatal(err)
	}
	if err := c.Processes.Resolve(open, c.Contents); err != nil {
		t.Fatal(err)
	}
	new(catalog.Inventory).Number(c)
	return c
}

// Reader opens a log until the end of the test.
func Reader(t testing.TB, open logtest.Opener) *tracelog.Reader {
	t.Helper()
	r, err := open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}
