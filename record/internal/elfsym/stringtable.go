package elfsym

import (
	"bytes"
	"errors"
	"io"
	"iter"
)

const (
	maxHits   = 1 << 16 // most places of wanted names in a string table
	chunkSize = 64 << 10
	maxName   = 64
)

// findNames returns the places in a string table where a wanted name begins. Such a place may
// lie inside another name: linkers let a name share the end of a longer one.
func findNames(r io.Reader, wanted func(string) bool) (map[uint32]string, error) {
	found := map[uint32]string{}
	buf := make([]byte, 0, chunkSize+maxName)
	base := 0 // place of buf in the table
	for {
		n, err := io.ReadFull(r, buf[len(buf):len(buf)+chunkSize])
		buf = buf[:len(buf)+n]
		last := err != nil
		if last && err != io.EOF && err != io.ErrUnexpectedEOF {
			return nil, err
		}
		// A name that begins in the last maxName bytes may continue in the next chunk.
		limit := len(buf) - maxName
		if last {
			limit = len(buf)
		}
		if !scanNames(buf, limit, base, wanted, found) {
			return nil, errors.New("the string table repeats a name too often")
		}
		if last {
			return found, nil
		}
		limit = max(limit, 0)
		base += limit
		buf = buf[:copy(buf, buf[limit:])]
	}
}

// scanNames finds wanted names that begin before limit. It returns false if there are too many.
func scanNames(buf []byte, limit, base int, wanted func(string) bool, found map[uint32]string) bool {
	prefix, internal := []byte("cu"), []byte("__")
	for at := 0; at < limit+len(internal); at++ {
		next := bytes.Index(buf[at:], prefix)
		if next < 0 {
			return true
		}
		at += next
		if !plausible(buf[at:]) {
			continue
		}
		end := bytes.IndexByte(buf[at:min(at+maxName, len(buf))], 0)
		if end < 0 {
			continue
		}
		// One place can hold both __cudaX and cudaX.
		for _, from := range []int{at, at - len(internal)} {
			if from < 0 || from >= limit || from < at && !bytes.HasPrefix(buf[from:], internal) ||
				!wanted(string(buf[from:at+end])) {
				continue
			}
			if len(found) >= maxHits {
				return false
			}
			found[uint32(base+from)] = string(buf[from : at+end])
		}
	}
	return true
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

// placesOf finds the places of names in a string table, also at the end of longer names.
func placesOf(texts []byte, names iter.Seq[string]) map[uint32]string {
	places := map[uint32]string{}
	for name := range names {
		ended := append([]byte(name), 0)
		for at := 0; ; at++ {
			next := bytes.Index(texts[at:], ended)
			if next < 0 {
				break
			}
			at += next
			places[uint32(at)] = name
		}
	}
	return places
}
