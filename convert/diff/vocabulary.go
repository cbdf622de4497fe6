package diff

import (
	"maps"
	"slices"

	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/convert/stats/table"
)

// unnamed are the reports whose rows have no names that two runs share: the largest allocations,
// and who held memory at a time.
var unnamed = map[string]bool{"unfreed": true, "out_of_memory": true}

// Vocabulary returns the figures that conditions may name: those of stats.
func Vocabulary() Words {
	words := Words{Figures: make(map[string]table.Unit), Reports: make(map[string]map[string]table.Unit)}
	for _, o := range overalls {
		words.Figures[o.name] = o.unit
	}
	for _, t := range stats.New().Tables(stats.Facts{}) {
		columns := make(map[string]table.Unit)
		for _, c := range t.Columns {
			if _, ok := valueUnits[c.Unit]; ok {
				columns[c.Key] = c.Unit
			}
		}
		if !unnamed[t.Name] && len(columns) > 0 {
			words.Reports[t.Name] = columns
		}
	}
	return words
}

// Reports returns the reports that a comparison with conditions needs.
func Reports(conditions []*Condition) []string {
	wanted := map[string]bool{metrics: true, findings: true}
	for _, s := range sections {
		wanted[s.report] = true
		if more := finer[s.report]; more != "" {
			wanted[more] = true
		}
	}
	for _, o := range overalls {
		for _, name := range o.reports {
			wanted[name] = true
		}
	}
	for _, c := range conditions {
		if c.Report != "" {
			wanted[c.Report] = true
		}
	}
	return slices.Sorted(maps.Keys(wanted))
}
