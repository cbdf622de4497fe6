package convert

// Files converts logs into one trace at out, in the place of a file that stands there.
func Files(logs []Log, out string, o TraceOptions) ([]Summary, error) {
	t, err := o.Target(out, true)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	all, _, err := FilesAt(logs, t, o)
	return all, err
}

// File converts the log at path into a compressed Perfetto trace at out.
func File(path, out string) (Summary, error) {
	all, err := Files([]Log{Path(path)}, out, TraceOptions{})
	if err != nil {
		return Summary{}, err
	}
	return all[0], nil
}
