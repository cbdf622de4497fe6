package parquetsink_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/internal/joined"
	"github.com/cudatrace/cudatrace/convert/internal/parquetsink"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/record/must"
)

var errFull = errors.New("the disk is full")

// A disk takes some bytes, and none after end.
type disk struct {
	t    *testing.T
	left int
	end  bool
}

func (d *disk) Write(b []byte) (int, error) {
	if d.end {
		d.t.Error("a file is written to after the end")
	}
	if d.left -= len(b); d.left < 0 {
		return 0, errFull
	}
	return len(b), nil
}

// TestDiskFull fails to write at the first byte, within the files, and in the last footer: the conversion ends with the
// error, and nothing is written after it.
func TestDiskFull(t *testing.T) {
	var data bytes.Buffer
	logtest.WriteLaunches(t, &data, 2000)
	write := func(d *disk, budget int) error {
		sink := tables(budget, func(string) (io.Writer, error) { return d, nil })
		_, err := convert.Timeline([]convert.Log{{Name: "log", Open: logtest.InMemory(data.Bytes())}}, convert.Options{}, sink)
		d.end = true
		return err
	}
	for _, budget := range []int{32 << 10, parquetsink.Budget} {
		const room = 1 << 30
		all := disk{t: t, left: room}
		must.Do(t, write(&all, budget))
		for _, left := range []int{0, (room - all.left) / 2, room - all.left - 1} {
			if err := write(&disk{t: t, left: left}, budget); !errors.Is(err, errFull) {
				t.Errorf("budget %d, room for %d bytes: %v", budget, left, err)
			}
		}
	}
}

// tables returns a sink whose files create makes.
func tables(budget int, create func(string) (io.Writer, error)) *joined.Sink {
	return joined.New(joined.Options{
		Run: "r", HostPID: func(n uint32) uint32 { return n }, Outcome: func(string) joined.Outcome { return joined.Outcome{} },
	}, parquetsink.New(budget, create))
}
