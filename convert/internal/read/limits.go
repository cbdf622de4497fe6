package read

import (
	"fmt"

	"github.com/cudatrace/cudatrace/record/tracelog"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// Limits of a log that is converted. What they bound is held in memory.
const (
	maxPrograms = 1 << 16 // programs of all processes
	// bytes of the names of programs, threads, streams, devices, callers and Python functions, and of arguments
	maxTexts       = 1 << 26
	maxRemarkText  = 1 << 24 // bytes of the texts of notes
	maxName        = 1 << 12 // bytes of the name of a function
	maxDefinitions = 1 << 20 // records that describe what events refer to
)

// definitions are the kinds of record that a catalog keeps. Of open calls it keeps few.
var definitions = kindsThat(func(t schema.Table) bool {
	return t.Role == schema.Definition && t.Kind != tracelog.KindOpenCall || t.Kind == tracelog.KindProcessEnd ||
		t.Kind == tracelog.KindGPUUser
})

// excess is the error of a log that is beyond the limits.
func (c *Catalog) excess() error {
	if len(c.Processes.PIDs) > maxPrograms || c.Totals[tracelog.KindProcess] > maxPrograms {
		return fmt.Errorf("has more than %d processes: cudatrace converts no log with so many", maxPrograms)
	}
	if c.Processes.texts+c.Callers.texts+c.Pythons.texts+c.Operators.texts+c.Natives.texts+c.Names.texts+c.GPUs.texts+
		c.Metrics.texts > maxTexts {
		return fmt.Errorf("has more than %d bytes of names of programs, threads, streams, callers and functions: cudatrace "+
			"converts no log with so many", maxTexts)
	}
	n := uint64(0)
	for _, k := range definitions {
		n += c.Totals[k]
	}
	if n > maxDefinitions {
		return fmt.Errorf("has more than %d definitions (functions, callers, threads and so on): cudatrace converts no log "+
			"with so many", maxDefinitions)
	}
	return nil
}
