package stats_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/kernelnames"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
)

// No two kernels of a log have one short name.
func TestShortNames(t *testing.T) {
	t.Parallel()
	for name, path := range logs(t) {
		tables := tablesOf(t, path)
		for _, report := range []string{"kernels", "launches"} {
			of := tables[report]
			seen := make(map[string]bool)
			for _, text := range of.Texts(of.Column("name")) {
				if n := utf8.RuneCountInString(text); n > kernelnames.Width || seen[text] {
					t.Errorf("%s, %s: %q has %d columns, or two kernels have it", name, report, text, n)
				}
				seen[text] = true
			}
		}
	}
}

// People read what differs in the parameters of two kernels, and --wide and JSON have names without it.
func TestShortNamesOfOverloads(t *testing.T) {
	t.Parallel()
	const collective = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
	text := `function id=1 name=cuLaunchKernel library=driver args="function:handle"
process pid=40 start=100 exe=/tmp/app args=./app
thread pid=40 tid=40 name=app
device pid=40 id=0 name="NVIDIA H200" uuid=00112233445566778899aabbccddeeff major=9
context pid=40 id=1 device=0 null_stream=7
`
	for i, kernel := range []string{"_Z3addPf", "_Z3addPi", collective} {
		text += fmt.Sprintf("call pid=40 tid=40 func=cuLaunchKernel enter=%d dur=1000 args: function=1\n", 1000+i*2000) +
			fmt.Sprintf("api pid=40 tid=40 domain=1 cbid=307 name=cuLaunchKernel start=%d dur=800 correlation=%d\n",
				1100+i*2000, i+1) +
			fmt.Sprintf("kernel pid=40 context=1 stream=7 correlation=%d start=%d dur=%d name=%s grid_x=1\n",
				i+1, 10000+i*100000, 9000-i*1000, kernel)
	}
	text += "process_end pid=40 time=900000 status=0 complete=1\nend time=950000 complete=1\n"
	data := must.Get(logtest.Assembled(text))(t)
	log := convert.Log{Name: "log", Open: logtest.InMemory(data)}
	s := taking(t, stats.New(), convert.Options{}, log)
	for _, of := range s.Tables(stats.Facts{}) {
		if of.Name != "kernels" && of.Name != "launches" {
			continue
		}
		var wide bytes.Buffer
		must.Do(t, table.WriteText(&wide, []*table.Table{of}, table.Wide))
		column := of.Column("name")
		short := of.Texts(column)
		slices.Sort(short)
		goldentest.Same(t, []string{"add float", "add int", "ncclAllReduce"}, short, "%s, short names", of.Name)
		for _, row := range of.Rows {
			name := row.Cells[column].(string)
			if name != "add" && name != collective || !strings.Contains(wide.String(), "\n  "+name+" ") {
				t.Errorf("%s: %q is in JSON, and this in wide text:\n%s", of.Name, name, &wide)
			}
		}
	}
}
