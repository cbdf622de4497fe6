package openfiles

import (
	"errors"
	"syscall"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
)

func TestRoom(t *testing.T) {
	var limit syscall.Rlimit
	must.Do(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	for range 2 { // it gives back what it took
		if err := Room(10); err != nil {
			t.Error(err)
		}
	}
	if err := Room(int(limit.Cur)); !errors.Is(err, syscall.EMFILE) {
		t.Errorf("room for as many files as may be open in all: %v", err)
	}
}

// TestRoomTakesNone looks for room a thousand times where few files may be open, while others are opened.
func TestRoomTakesNone(t *testing.T) {
	var limit syscall.Rlimit
	must.Do(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	defer func(old syscall.Rlimit) {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
			t.Error(err)
		}
	}(limit)
	limit.Cur = 64
	must.Do(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
	over := make(chan struct{})
	go func() {
		defer close(over)
		for range 1000 {
			if err := Room(64); !errors.Is(err, syscall.EMFILE) {
				t.Errorf("room for as many files as may be open in all: %v", err)
			}
		}
	}()
	for looking := true; looking; {
		taken, err := openSpares(3)
		release(taken)
		if err != nil {
			t.Error(err)
			<-over
		}
		select {
		case <-over:
			looking = false
		default:
		}
	}
}
