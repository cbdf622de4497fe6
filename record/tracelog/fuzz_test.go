package tracelog

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog/internal/blockfile"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// readerSeeds are the named inputs of FuzzReader: intact logs, logs of other
// versions, and every way in which a log can be wrong.
func readerSeeds(t testing.TB) map[string][]byte {
	seeds := map[string][]byte{
		"intact":        smallLog(t),
		"launches":      launches(t, 60),
		"header_only":   blockfile.AppendFileHeader(nil, blockfile.Current),
		"empty":         nil,
		"text":          []byte("not a log at all, but long enough for one"),
		"newer_version": append(blockfile.AppendFileHeader(nil, blockfile.Current)[:8], 7, 0, 0, 0, 0, 0, 0, 0),
	}
	for _, c := range damagedLogs(t) {
		seeds[c.name] = c.log
	}
	return seeds
}

// The seeds are kept as files, which fuzzing and every test run begin with; -update
// writes those of this version.
func TestReaderSeeds(t *testing.T) {
	seeds := readerSeeds(t)
	seeds["newer_minor_version"] = newerVersion(t)
	for name, log := range seeds {
		path := filepath.Join("testdata", "fuzz", "FuzzReader", name)
		if *goldentest.Update {
			must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
			must.Do(t, os.WriteFile(path, fmt.Appendf(nil, "go test fuzz v1\n[]byte(%q)\n", log), 0o644))
		}
		if _, err := os.Stat(path); err != nil {
			t.Errorf("seed %s: %v", name, err)
		}
	}
}

// mend makes the checksums of all blocks right, so that what is changed behind
// them is looked at.
func mend(log []byte) []byte {
	log = bytes.Clone(log)
	le := binary.LittleEndian
	for at := blockfile.FileHeaderSize; at+blockfile.HeaderSize <= len(log); {
		next := bytes.Index(log[at:], []byte{0xCD, 0x7A, 0xB1, 0x0C})
		if next < 0 || at+next+blockfile.HeaderSize > len(log) {
			break
		}
		at += next
		length := le.Uint32(log[at+12:])
		if uint64(length) > uint64(len(log)-at-blockfile.HeaderSize) {
			at++
			continue
		}
		payload := log[at+blockfile.HeaderSize:][:length]
		le.PutUint32(log[at+16:], blockfile.Checksum(payload))
		le.PutUint32(log[at+20:], blockfile.Checksum(log[at:at+20]))
		at += blockfile.HeaderSize + int(length)
	}
	return log
}

// fuzzRows bounds the records of one input that are looked at: a few bytes can
// stand for very many equal ones.
const fuzzRows = 300_000

func exercise(t *testing.T, log []byte) {
	r, err := NewReader(bytes.NewReader(log), int64(len(log)), "fuzz")
	if err != nil {
		return
	}
	last, rows, ends := int64(-1), 0, 0
	for rows < fuzzRows && r.Next() {
		b := r.Block()
		if b.Offset <= last || b.N < 1 || b.N > schema.MaxRows {
			t.Fatalf("block at %d of %d rows behind the one at %d", b.Offset, b.N, last)
		}
		last = b.Offset
		if rows += b.N; b.Kind == KindEnd {
			ends += b.N
		}
		if from, to := b.Time(); from > to {
			t.Fatalf("a block is from %d to %d", from, to)
		}
		if b.Known() && b.Kind != KindEnd {
			record := NewRecord(b.Kind)
			for i := 0; i < b.N; i += 1 + b.N/100 {
				record.Read(b, i)
			}
		}
	}
	if (r.Err() != nil) != (r.Damage().Count > 0) || r.Damage().String() == "" {
		t.Fatalf("error %v, damage %v", r.Err(), r.Damage())
	}
	if index, err := r.Index(); err == nil && len(index.Blocks) > len(log)/blockfile.HeaderSize {
		t.Fatalf("%d blocks in %d bytes", len(index.Blocks), len(log))
	}
	exerciseSelect(t, log)
	if rows < fuzzRows {
		exerciseRepair(t, log, rows-ends, r)
	}
}

// exerciseSelect reads a part by the index, and keeps blocks. (Other goroutines would
// make the coverage, by which inputs are chosen, a matter of chance.)
func exerciseSelect(t *testing.T, log []byte) {
	r := openBytes(t, log)
	defer r.Close()
	f := Filter{Kinds: []Kind{KindCall, KindKernel, KindNote, 77}, From: 1, To: 1 << 50, PIDs: []uint32{1, 12, 4711}}
	if err := r.Select(f); err != nil {
		return
	}
	var kept []*Block
	for rows := 0; rows < fuzzRows && r.Next(); rows += r.Block().N {
		if b := r.Block(); len(f.Kinds) > 0 && b.Kind != KindCall && b.Kind != KindKernel && b.Kind != KindNote && b.Kind != 77 {
			t.Fatalf("%v records were not asked for", b.Kind)
		}
		if kept = append(kept, r.Keep()); len(kept) > 3 {
			kept[0].Release()
			kept = kept[1:]
		}
	}
	for _, b := range kept {
		for i := 0; i < b.N; i += 1 + b.N/100 {
			if f.Match(b, i) && b.Kind == KindCall {
				new(Call).Read(b, i)
			}
		}
		b.Release()
	}
}

// exerciseRepair repairs a log that has been read, with so many records but for its end:
// the result has them, a note, one end, and no damage.
func exerciseRepair(t *testing.T, log []byte, rows int, read *Reader) {
	fixed, done := repairOf(t, log)
	r := openBytes(t, fixed)
	if n := survivors(r); n != rows+2 || r.Err() != nil || done.Damage.Count != read.Damage().Count {
		t.Fatalf("%d records were %d; error %v; damage was %v", n, rows+2, r.Err(), read.Damage())
	}
}

// No input makes the reader panic, hang or give what it must not.
func FuzzReader(f *testing.F) {
	f.Fuzz(func(t *testing.T, log []byte) {
		exercise(t, log)
		exercise(t, mend(log))
	})
}
