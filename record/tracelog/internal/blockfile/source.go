package blockfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync/atomic"
)

// A Source is the file that blocks are read from. Its methods may be called from any
// goroutine.
type Source struct {
	file    io.ReaderAt
	size    atomic.Int64
	read    atomic.Int64 // bytes
	growing atomic.Bool
}

// NewSource returns a source of the first size bytes of a file.
func NewSource(file io.ReaderAt, size int64) *Source {
	s := &Source{file: file}
	s.size.Store(size)
	return s
}

// Size is the number of bytes of the file when it was last looked at.
func (s *Source) Size() int64 { return s.size.Load() }

// BytesRead is the number of bytes that have been read so far.
func (s *Source) BytesRead() int64 { return s.read.Load() }

// ReadAt fills b from the file. It fails where the file has shrunk meanwhile.
func (s *Source) ReadAt(b []byte, off int64) error {
	n, err := s.file.ReadAt(b, off)
	s.read.Add(int64(n))
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("cannot be read at byte %d: %w", off+int64(n), Bare(err))
}

// HeaderAt reads the header of the block at an offset. ok is false where there is none.
func (s *Source) HeaderAt(at int64) (h Header, ok bool, err error) {
	var b [HeaderSize]byte
	if at < FileHeaderSize || at > s.Size()-HeaderSize {
		return Header{}, false, nil
	}
	if err := s.ReadAt(b[:], at); err != nil {
		return Header{}, false, err
	}
	h, ok = ParseHeader(b[:])
	return h, ok, nil
}

// Load reads the payload of the block at an offset, whose header is known. It reports whether
// the payload is complete and its checksum is right.
func (s *Source) Load(b *Block, h Header, at int64) (intact bool, err error) {
	if int64(h.Length) > s.Size()-at-HeaderSize {
		return false, nil
	}
	if cap(b.Payload) < int(h.Length) {
		b.Payload = make([]byte, h.Length)
	}
	b.Offset, b.Header, b.Payload = at, h, b.Payload[:h.Length]
	if err := s.ReadAt(b.Payload, at+HeaderSize); err != nil {
		return false, err
	}
	return Checksum(b.Payload) == h.CRC, nil
}

// SetGrowing says that the file may still grow. It fails where the file cannot tell its
// length: it needs a method Stat, as files have, or Size.
func (s *Source) SetGrowing() error {
	if _, err := s.length(); err != nil {
		return err
	}
	s.growing.Store(true)
	return nil
}

// StopGrowing says that the file grows no more.
func (s *Source) StopGrowing() { s.growing.Store(false) }

// Growing reports whether the file may still grow.
func (s *Source) Growing() bool { return s.growing.Load() }

// length is the number of bytes of the file now.
func (s *Source) length() (int64, error) {
	switch f := s.file.(type) {
	case interface{ Stat() (fs.FileInfo, error) }:
		info, err := f.Stat()
		if err != nil {
			return 0, fmt.Errorf("cannot be followed: %w", Bare(err))
		}
		return info.Size(), nil
	case interface{ Size() int64 }:
		return f.Size(), nil
	}
	return 0, errors.New("cannot be followed: it does not tell how long it is")
}

// grow looks at the length of the file again and reports whether it has grown.
func (s *Source) grow() (bool, error) {
	length, err := s.length()
	if err != nil {
		return false, err
	}
	known := s.Size()
	if length < known {
		return false, fmt.Errorf("has become shorter: %d bytes were %d", length, known)
	}
	s.size.Store(length)
	return length > known, nil
}

// Bare takes the operation and the paths off an error of package os.
func Bare(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	var le *os.LinkError
	if errors.As(err, &le) {
		return le.Err
	}
	return err
}
