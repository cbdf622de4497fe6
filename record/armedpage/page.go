// Package armedpage reads and writes the page on which armed programs wait for a recorder: struct ct_armed of
// record/cupti/inject/wire.h. Input: the open file. Output: what the page says, or processes that wake. The page
// belongs to the programs' user, who may write anything.
package armedpage

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The layout of the page.
const (
	Size    = 4096
	MaxPIDs = 1018 // processes that a recorder can want at a time

	CountAt   = 4 // after the word
	FiltersAt = 8
	SpaceAt   = 16
	PIDsAt    = 24
)

// New is the page of programs that are started here under a number of filters of system calls.
func New(filters uint32) []byte {
	p := make([]byte, Size)
	binary.NativeEndian.PutUint32(p[FiltersAt:], filters)
	binary.NativeEndian.PutUint64(p[SpaceAt:], PIDNamespace())
	return p
}

// PIDNamespace is the inode of our PID namespace; 0 if it is not known.
func PIDNamespace() uint64 {
	var s unix.Stat_t
	if unix.Stat("/proc/self/ns/pid", &s) != nil {
		return 0
	}
	return s.Ino
}

// Namespace is the PID namespace in which the programs of a page were started.
func Namespace(page io.ReaderAt) (uint64, error) {
	var b [8]byte
	_, err := page.ReadAt(b[:], SpaceAt)
	return binary.NativeEndian.Uint64(b[:]), err
}

// Filters is the number of filters of system calls that the programs of a page were started under.
func Filters(page io.ReaderAt) (uint32, error) {
	var b [4]byte
	_, err := page.ReadAt(b[:], FiltersAt)
	return binary.NativeEndian.Uint32(b[:]), err
}

// Want writes which processes a recorder wants, by their IDs in their own PID namespaces, and rings.
func Want(page *os.File, pids []uint32) error {
	if len(pids) > MaxPIDs {
		return fmt.Errorf("a recorder has at most %d processes of one 'cudatrace run'", MaxPIDs)
	}
	var list []byte
	for _, pid := range pids {
		list = binary.NativeEndian.AppendUint32(list, pid)
	}
	count := binary.NativeEndian.AppendUint32(nil, uint32(len(pids)))
	// A process that looks meanwhile finds no list, or a whole one.
	if _, err := page.WriteAt(make([]byte, len(count)), CountAt); err != nil {
		return err
	}
	if _, err := page.WriteAt(list, PIDsAt); err != nil {
		return err
	}
	if _, err := page.WriteAt(count, CountAt); err != nil {
		return err
	}
	return ring(page)
}

// ring changes the word and wakes who sleeps on it.
func ring(page *os.File) error {
	var b [4]byte
	if _, err := page.ReadAt(b[:], 0); err != nil {
		return err
	}
	word := max(binary.NativeEndian.Uint32(b[:])+1, 1)
	if _, err := page.WriteAt(binary.NativeEndian.AppendUint32(nil, word), 0); err != nil {
		return err
	}
	return wake(page)
}

// wake maps the page for the kernel alone: reading it here would kill us, had its owner cut the file off.
func wake(page *os.File) error {
	const opWake = 1 // linux/futex.h
	mapped, err := unix.Mmap(int(page.Fd()), 0, Size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	_, _, no := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(unsafe.SliceData(mapped))), opWake, math.MaxInt32, 0, 0, 0)
	if err := unix.Munmap(mapped); err != nil {
		return err
	}
	if no != 0 {
		return fmt.Errorf("futex: %w", no)
	}
	return nil
}
