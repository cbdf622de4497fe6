package gpumetrics

import (
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// lookUntil looks until something holds.
func lookUntil(t *testing.T, m *Monitor, holds func(list []Use, why string) bool) (list []Use) {
	t.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		list, why := m.Look()
		if holds(list, why) {
			return list
		}
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %+v, %q", list, why)
		}
	}
}

func monitorOf(t *testing.T, env ...string) *Monitor {
	t.Helper()
	m := startMonitor(Options{environ: append(env, "LD_LIBRARY_PATH="+filepath.Dir(library(t)))})
	t.Cleanup(m.End)
	return m
}

func hasEnded(m *Monitor) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.process.ended
}

// A monitor has the utilization and the processes of each GPU; between two values it keeps the one before.
func TestMonitor(t *testing.T) {
	t.Parallel()
	m := monitorOf(t, "CUDASIM_DEVICES=2", "CUDASIM_NVML_PID=4711", "CUDASIM_NVML_UTILIZATION=25")
	list := lookUntil(t, m, func(list []Use, _ string) bool {
		return len(list) == 2 && list[0].Busy == 0.25 && list[1].Busy == 0.25 && len(list[1].PIDs) > 0
	})
	if again, _ := m.Look(); again[0].Busy != 0.25 || list[0].UUID == list[1].UUID || !slices.Equal(list[0].PIDs, []int{4711}) {
		t.Errorf("%+v, then %+v", list, again)
	}
	m.End()
	m.process.ended = false // it is not started again
	m.gpus[0].valued, m.gpus[0].values = time.Now().Add(-time.Hour), 0
	if list, _ := m.Look(); !slices.ContainsFunc(list, func(u Use) bool { return math.IsNaN(u.Busy) }) {
		t.Errorf("a GPU without values for an hour: %+v", list)
	}
}

// Of a GPU that is divided into MIG instances nothing is known but that it is there.
func TestMonitorMIG(t *testing.T) {
	t.Parallel()
	m := monitorOf(t, "CUDASIM_DEVICES=2", "CUDASIM_NVML_MIG=2", "CUDASIM_NVML_PID=4711", "CUDASIM_NVML_UTILIZATION=0")
	list := lookUntil(t, m, func(list []Use, _ string) bool {
		return len(list) == 2 && slices.ContainsFunc(list, func(u Use) bool { return u.Busy == 0 && len(u.PIDs) > 0 })
	})
	whole, divided := list[0], list[1]
	if whole.Unseen {
		whole, divided = divided, whole
	}
	if whole.Unseen || !divided.Unseen || !math.IsNaN(divided.Busy) || len(divided.PIDs) > 0 ||
		divided.UUID == whole.UUID {
		t.Errorf("%+v", list)
	}
}

// Without NVML it says why, and looks for it again later; a sampler that is killed is started again, too.
func TestMonitorFails(t *testing.T) {
	t.Parallel()
	m := monitorOf(t, "CUDASIM_NVML_INIT_ERROR=9")
	lookUntil(t, m, func(_ []Use, why string) bool { return why != "" })
	before := m.why
	m.began = m.began.Add(-monitorRetry)
	for process := m.process; m.process == process || !hasEnded(m); time.Sleep(10 * time.Millisecond) {
		if _, why := m.Look(); why != before {
			t.Fatalf("while it is started again, %q becomes %q", before, why)
		}
	}
	m.options.environ[0] = "CUDASIM_DEVICES=1"
	m.began = m.began.Add(-monitorRetry)
	lookUntil(t, m, func(list []Use, why string) bool { return len(list) == 1 && list[0].Busy == 0.37 && why == "" })
	m.mu.Lock()
	m.process.kill()
	m.mu.Unlock()
	lookUntil(t, m, func(_ []Use, why string) bool { return why == "the sampler has failed (it has ended)" })
	m.began = m.began.Add(-monitorRetry)
	lookUntil(t, m, func(list []Use, _ string) bool { return len(list) == 1 && list[0].Busy == 0.37 })
}

// What a sampler sends is checked.
func TestMonitorMessages(t *testing.T) {
	t.Parallel()
	for name, messages := range map[string][]any{
		"no UUID":   {device{}},
		"index":     {device{index: devicesMax, uuid: "0"}},
		"cut rows":  {set{number: 1, names: []string{"utilization", "power"}}, rows{set: 1, count: 1, words: make([]byte, 24)}},
		"many rows": {set{number: 1, names: []string{"utilization"}}, rows{set: 1, count: -1}},
	} {
		m := &Monitor{gpus: map[uint32]*monitored{}, sets: map[uint32]utilization{}}
		var err error
		for _, message := range messages {
			_, err = m.takeMessage(newProcess(), message)
		}
		if err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
