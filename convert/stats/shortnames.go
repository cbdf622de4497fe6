package stats

import (
	"cmp"
	"strings"

	"github.com/cudatrace/cudatrace/convert/kernelnames"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// shortNames are the names of the kernels for people.
func (s *work) shortNames() *kernelnames.Names {
	if s.short == nil || s.shortOf != len(s.kernels.list) {
		all := make([]timeline.KernelName, 0, len(s.kernels.list))
		for _, r := range s.kernels.list {
			if r.name != other {
				all = append(all, s.names.Of(r.name))
			}
		}
		s.short, s.shortOf = kernelnames.New(all), len(s.kernels.list)
	}
	return s.short
}

// shortTitle is the name of a kernel for people, by its mangled name.
func (s *work) shortTitle(mangled string) string {
	name := s.names.Of(mangled)
	return s.shortNames().Of(cmp.Or(name.Full, name.Short))
}

// shorten has people see short names of the kernels of a report.
func (s *work) shorten(t *table.Table) {
	names, name, signature := s.shortNames(), t.Column("name"), t.Column("signature")
	t.Columns[name].Short = func(row table.Row) string {
		if l, is := row.Of.(*launchCells); is {
			return names.Known(l.signature)
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
