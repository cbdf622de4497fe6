package stats

import (
	"cmp"
	"strings"

	"github.com/cudatrace/cudatrace/convert/kernelnames"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// shortNames are the names of the first kernels for people.
type shortNames struct {
	names *kernelnames.Names
	of    int // kernels
}

// shortNames are the names of the kernels for people.
func (s *Sink) shortNames() *kernelnames.Names {
	if list := kernelsReport.rowsOf(s.view().whole).List; s.short.names == nil || s.short.of != len(list) {
		all := make([]timeline.KernelName, 0, len(list))
		for _, r := range list {
			if r.mangled != other {
				all = append(all, s.names.Of(r.mangled))
			}
		}
		s.short = shortNames{kernelnames.New(all), len(list)}
	}
	return s.short.names
}

// shortTitle is the name of a kernel for people, by its mangled name.
func (s *Sink) shortTitle(mangled string) string {
	name := s.names.Of(mangled)
	return s.shortNames().Of(cmp.Or(name.Full, name.Short))
}

// shorten has people see short names of the kernels of a report.
func (s *Sink) shorten(t *table.Table) {
	names, name, signature := s.shortNames(), t.Column("name"), t.Column("signature")
	t.Columns[name].Short = func(row table.Row) string {
		if l, is := row.Of.(*launchCells); is {
			return s.shortTitle(l.mangled)
		}
		if signature >= 0 {
			if full, is := row.Cells[signature].(string); is {
				return names.Known(full)
			}
		}
		plain, _ := row.Cells[name].(string)
		kernel, operation, has := strings.Cut(plain, " (") // of NCCL
		if short := names.Known(kernel); has && short != "" {
			return short + " (" + operation
		}
		return names.Known(plain)
	}
}
