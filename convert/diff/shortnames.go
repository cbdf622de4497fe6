package diff

import (
	"strings"

	"github.com/cudatrace/cudatrace/convert/kernelnames"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// nameKernels gives rows of kernels their short names: of all kernels of both sides, so that none has that of another.
func (d *Diff) nameKernels() {
	var all []timeline.KernelName
	for _, s := range d.Sections {
		if s.Report != "kernels" {
			continue
		}
		for _, r := range s.Rows {
			if all = append(all, kernelOf(r.pair.inNew)); r.Was != "" {
				all = append(all, kernelOf(r.pair.inBase))
			}
		}
	}
	names := kernelnames.New(all)
	for _, s := range d.Sections {
		if s.Report != "kernels" {
			continue
		}
		for _, r := range s.Rows {
			r.short, r.shortWas = shortLabel(names, r.pair.inNew, r.Name), shortLabel(names, r.pair.inBase, r.Was)
		}
	}
}

// kernelOf is the kernel of a row's key.
func kernelOf(key string) timeline.KernelName {
	parts := strings.SplitN(key, "\x00", 3) // name, signature, and the Python function
	return timeline.KernelName{Short: parts[0], Full: parts[1]}
}

// shortLabel is a label with the short name of its kernel.
func shortLabel(names *kernelnames.Names, key, label string) string {
	kernel := kernelOf(key)
	short := names.Known(kernel.Full)
	if short == "" {
		short = names.Known(kernel.Short)
	}
	behind, is := strings.CutPrefix(label, kernel.Short)
	if short == "" || !is {
		return label
	}
	return short + behind
}

// shown is the name of a row for people.
func (r *Row) shown() string {
	if r.short != "" {
		return r.short
	}
	return r.Name
}

// addRow adds the cells of a row to a table whose column of names has shortNames.
func addRow(t *table.Table, r *Row, cells ...any) {
	t.Rows = append(t.Rows, table.Row{Cells: cells, Of: r})
}

func shortNames(row table.Row) string { return row.Of.(*Row).short }
