package pyframes

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"os/exec"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/pythontest"
)

// TestLine compares the lines of each instruction with those that each interpreter itself finds.
func TestLine(t *testing.T) {
	pythontest.Each(t, func(t *testing.T, p pythontest.Interpreter) {
		cmd := exec.Command(p.Path, "testdata/lines.py")
		out := must.Get(cmd.StdoutPipe())(t)
		must.Do(t, cmd.Start())
		l, codes, lines := layoutOf(p.Minor), 0, 0
		said := bufio.NewScanner(out)
		said.Buffer(nil, 64<<20)
		for said.Scan() {
			var c struct {
				Name        string
				First, Unit int
				Table       string
				Lines       []int
			}
			must.Do(t, json.Unmarshal(said.Bytes(), &c))
			table := must.Get(hex.DecodeString(c.Table))(t)
			codes++
			for i, want := range c.Lines {
				lines++
				if got := l.Line(table, c.First, i*c.Unit); got != max(want, 0) {
					t.Fatalf("%s from line %d on, offset %d: line %d, not %d (table %x)", c.Name, c.First, i*c.Unit, got, want, table)
				}
			}
		}
		must.Do(t, cmd.Wait())
		if codes < 200 || lines < 10000 {
			t.Errorf("compared %d code objects with %d lines only", codes, lines)
		}
	})
}

// FuzzLine gives tables that nobody made.
func FuzzLine(f *testing.F) {
	f.Add([]byte{6, 1, 250, 128, 2, 255}, 1, 10)
	f.Add([]byte{0xf0, 3, 1, 1, 0xe9, 127, 127, 127, 127, 127, 127, 127, 127, 1, 0xff}, 7, 300)
	f.Fuzz(func(t *testing.T, table []byte, first, offset int) {
		for i := range Layouts {
			if line := Layouts[i].Line(table, first, offset); line < 0 {
				t.Errorf("3.%d: line %d", Layouts[i].Minor, line)
			}
		}
	})
}
