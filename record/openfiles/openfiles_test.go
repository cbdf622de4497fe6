package openfiles

import (
	"errors"
	"syscall"
	"testing"
)

func TestRoom(t *testing.T) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	for range 2 { // it gives back what it took
		if err := Room(10); err != nil {
			t.Error(err)
		}
	}
	if limit.Cur > 1<<20 {
		t.Skip("the limit is too high to be reached")
	}
	if err := Room(int(limit.Cur)); !errors.Is(err, syscall.EMFILE) {
		t.Errorf("room for as many files as may be open in all: %v", err)
	}
	if err := Room(10); err != nil {
		t.Error(err)
	}
}
