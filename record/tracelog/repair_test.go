package tracelog

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// repairOf repairs a log in memory.
func repairOf(t *testing.T, log []byte) ([]byte, *Repair) {
	t.Helper()
	var out bytes.Buffer
	done, err := RepairTo(&out, "out", openBytes(t, log))
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), done
}

// Whatever is wrong with a log, its repair has the same records, is without damage and
// says that it was repaired.
func TestRepair(t *testing.T) {
	t.Parallel()
	for _, c := range damagedLogs(t) {
		t.Run(c.name, func(t *testing.T) {
			fixed, done := repairOf(t, c.log)
			before := openBytes(t, c.log)
			want := 1 + survivors(before) // a note
			if _, ok := before.End(); !ok {
				want++
			}
			r := openBytes(t, fixed)
			if got := survivors(r); got != want || r.Err() != nil {
				t.Errorf("%d records, want %d; error %v", got, want, r.Err())
			}
			if end, ok := r.End(); !ok || end.Complete != 0 || !strings.Contains(end.Reason, "repaired") || done.Reason == "" {
				t.Errorf("end %+v, %v; reason %q", end, ok, done.Reason)
			}
			if done.Records != uint64(want-2) || done.Damage.Count != c.count {
				t.Errorf("kept %d records of %d, damage %v", done.Records, want-2, &done.Damage)
			}
			if _, err := r.Index(); err != nil {
				t.Errorf("no index: %v", err)
			}
			checkTexts(t, c.log, fixed)
			again, _ := repairOf(t, fixed)
			if n := survivors(openBytes(t, again)); n != want+1 {
				t.Errorf("repaired twice: %d records, want %d", n, want+1)
			}
		})
	}
}

// checkTexts holds the text of a log against that of its repair, but for its end.
func checkTexts(t *testing.T, log, fixed []byte) {
	t.Helper()
	inFixed := make(map[string]bool)
	for _, line := range strings.Split(dump(t, fixed), "\n") {
		inFixed[line] = true
	}
	for _, line := range strings.Split(dump(t, log), "\n") {
		if !inFixed[line] && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "end ") {
			t.Errorf("%q is not in the repaired log", line)
		}
	}
}

// With the index of the damaged log the number of missing records is known.
func TestRepairCounts(t *testing.T) {
	t.Parallel()
	log := launches(t, 30_000)
	lost, bytesLost := uint64(0), int64(0)
	for i, b := range blocksOf(t, log) {
		if i%3 == 2 && b.records > 1 {
			log[b.from+blockHeaderSize+1] ^= 4
			lost += uint64(b.records)
			bytesLost += int64(b.to - b.from)
		}
	}
	_, done := repairOf(t, log)
	if lost == 0 || done.Missing != lost || done.Dropped != bytesLost {
		t.Errorf("%d records and %d bytes are missing, the repair says %d and %d", lost, bytesLost, done.Missing, done.Dropped)
	}
}

func TestRepairFile(t *testing.T) {
	dir := t.TempDir()
	log := launches(t, 2000)
	good, cut, out := filepath.Join(dir, "good"), filepath.Join(dir, "cut"), filepath.Join(dir, "out")
	for path, b := range map[string][]byte{good: log, cut: log[:len(log)-100]} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if done, err := RepairFile(good, out); err != nil || done.Damage.Count != 0 {
		t.Errorf("an intact log: %+v, %v", done, err)
	}
	if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an intact log was written: %v", err)
	}
	for _, to := range []string{out, cut} { // the second in its own place
		if done, err := RepairFile(cut, to); err != nil || done.Damage.Count == 0 {
			t.Fatalf("%+v, %v", done, err)
		}
		r, err := Open(to)
		if err != nil {
			t.Fatal(err)
		}
		if survivors(r); r.Err() != nil {
			t.Error(r.Err())
		}
		r.Close()
	}
	if _, err := RepairFile(cut, filepath.Join(dir, "none", "x")); err == nil || !strings.HasSuffix(err.Error(), "(make its folder first)") {
		t.Errorf("no folder: %v", err)
	}
	if err := os.WriteFile(cut, log[:len(log)-100], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := RepairFile(cut, dir); err == nil {
		t.Error("a folder was replaced")
	}
	if rest, _ := filepath.Glob(filepath.Join(dir, "*partial*")); len(rest) > 0 {
		t.Errorf("%v is left", rest)
	}
}

// A log of a newer version keeps what this version does not know.
func TestRepairNewerVersion(t *testing.T) {
	log := newerVersion(t)
	fixed, _ := repairOf(t, log)
	first, _, _ := strings.Cut(dump(t, log), "#")
	if got := dump(t, fixed); !strings.HasPrefix(got, first) {
		t.Errorf("text was\n%s and is\n%s", first, got)
	}
}
