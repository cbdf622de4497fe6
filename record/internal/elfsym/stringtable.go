package elfsym

import (
	"bytes"
	"errors"
	"io"
)

const (
	maxHits   = 1 << 16 // most places of wanted names in a string table
	chunkSize = 64 << 10
	maxName   = 64
)

// findNames returns the places in a string table where a wanted name begins. Such a place may
// lie inside another name: linkers let a name share the end of a longer one.
func (f *file) findNames(texts *io.SectionReader, wanted func(string) bool) (map[uint32]string, error) {
	found := map[uint32]string{}
	_, offset, size := texts.Outer()
	if !f.pieces(0, uint64(offset), uint64(size), maxName+len(internal), func(at uint64, b []byte) bool {
		return scanNames(uint32(at), b, wanted, found)
	}) {
		return nil, errors.New("the string table repeats a name too often")
	}
	return found, nil
}

const internal = "__" // begins names beside those of the API

// scanNames finds wanted names in a piece of a string table. It returns false if there are too many.
func scanNames(base uint32, b []byte, wanted func(string) bool, found map[uint32]string) bool {
	for at := 0; ; at++ {
		next := bytes.Index(b[at:], []byte("cu"))
		if next < 0 {
			return true
		}
		at += next
		if !plausible(b[at:]) {
			continue
		}
		end := bytes.IndexByte(b[at:min(at+maxName, len(b))], 0)
		if end < 0 {
			continue
		}
		// One place can hold both __cudaX and cudaX.
		for _, from := range []int{at, at - len(internal)} {
			if from < 0 || from < at && string(b[from:at]) != internal || !wanted(string(b[from:at+end])) {
				continue
			}
			if len(found) >= maxHits {
				return false
			}
			found[base+uint32(from)] = string(b[from : at+end])
		}
	}
}

// plausible reports whether text, which begins with "cu", can be the beginning of a wanted name.
// Most places of "cu" are inside other words.
func plausible(text []byte) bool {
	for _, prefix := range []string{"cu", "cuda", "cupti"} {
		if len(text) > len(prefix) && string(text[:len(prefix)]) == prefix && text[len(prefix)] >= 'A' &&
			text[len(prefix)] <= 'Z' {
			return true
		}
	}
	return false
}

// places returns the places in a string table where one of the names begins, also at the end of longer names.
func (f *file) places(texts *io.SectionReader, names []string) map[uint32]string {
	found := map[uint32]string{}
	_, offset, size := texts.Outer()
	f.pieces(0, uint64(offset), uint64(size), maxName, func(base uint64, b []byte) bool {
		for _, name := range names {
			ended := append([]byte(name), 0)
			for at := 0; ; at++ {
				next := bytes.Index(b[at:], ended)
				if next < 0 {
					break
				}
				at += next
				found[uint32(base)+uint32(at)] = name
			}
		}
		return len(found) < maxHits
	})
	return found
}
