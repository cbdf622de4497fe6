package perfetto

import (
	"testing"

	"github.com/cudatrace/cudatrace/perfetto/tptest"
)

func TestMetadata(t *testing.T) {
	t.Parallel()
	tr := tptest.Open(t, save(t, Options{Monotonic: 5, Start: 5}, func(w *Writer) {
		w.Metadata(nil)
		w.Metadata([]Fact{{"host", "node"}, {"args", "a b\x00\xff"}})
		w.Metadata([]Fact{{"host", "other"}})
	}))
	tptest.NoErrors(t, tr)
	rows(t, tr, `select name, str_value from metadata where name glob 'cr-*' order by name`,
		row{"cr-2-host", "other"}, row{"cr-args", "a b��"}, row{"cr-host", "node"})
}
