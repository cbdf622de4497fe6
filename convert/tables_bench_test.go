package convert

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/record/must"
)

// tableLaunches is the number of launches in the log of BenchmarkTables: several row groups of each table, as row groups are
// encoded while later rows come.
const tableLaunches = 1_000_000

// BenchmarkTables makes the tables of a log in memory: four rows a launch. rows/s counts the rows of all tables by the clock;
// rows/cpu-s by the time of all processors, which other programs on the machine change little.
func BenchmarkTables(b *testing.B) {
	var data bytes.Buffer
	logtest.WriteLaunches(b, &data, tableLaunches)
	var all Summary
	var work int64
	before := processorTime(b)
	for b.Loop() {
		var files []*logtest.Counter
		var names []string
		c := newConversion([]Log{{Name: "log", Open: logtest.InMemory(data.Bytes())}}, Options{})
		must.Do(b, c.read())
		list := must.Get(c.write(TraceOptions{Format: FormatNamed("parquet")}, func(name string) (io.Writer, error) {
			files, names = append(files, new(logtest.Counter)), append(names, name)
			return files[len(files)-1], nil
		}))(b)
		all = list[0]
		for i, f := range files {
			if strings.HasPrefix(names[i], "work/") {
				work = f.Bytes
			}
		}
	}
	b.ReportMetric(float64(b.N)*float64(all.Slices)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(float64(b.N)*float64(all.Slices)/(processorTime(b)-before).Seconds(), "rows/cpu-s")
	b.ReportMetric(float64(work)/float64(all.Kernels), "B/row-of-work")
}
