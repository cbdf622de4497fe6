package callcost

import (
	"debug/elf"
	"errors"
	"testing"
)

// The child makes the calls, of the function that attach is told of: it has the code at
// the end of loopCode.
func TestMeasure(t *testing.T) {
	attached, detached := 0, 0
	_, err := Measure(16, func(path string, offset uint64, pid int) (func() error, error) {
		attached++
		f, err := elf.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if end := f.Progs[0].Filesz; offset < loopStart || offset >= end || f.Progs[0].Flags&elf.PF_X == 0 {
			t.Errorf("the function is at %d, the code ends at %d", offset, end)
		}
		if pid <= 0 {
			t.Errorf("process %d", pid)
		}
		return func() error { detached++; return nil }, nil
	})
	if err != nil || attached != 1 || detached != 1 {
		t.Errorf("attached %d times, detached %d times, %v", attached, detached, err)
	}
}

// An error of attach is that of Measure.
func TestNotAttached(t *testing.T) {
	failure := errors.New("no probes here")
	_, err := Measure(16, func(string, uint64, int) (func() error, error) { return nil, failure })
	if !errors.Is(err, failure) {
		t.Errorf("error %v", err)
	}
}
