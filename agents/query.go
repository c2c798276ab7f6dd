package agents

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"
)

// A transcript's lines are in the order of their times, and every line begins
// with its time: so a moment is found in it by halving, whatever its length.

// lineHead is how a line begins; what follows is RFC 3339.
const lineHead = `{"at":"`

// timeOf is the time of a line; false: it is torn.
func timeOf(line []byte) (time.Time, bool) {
	rest, ok := bytes.CutPrefix(line, []byte(lineHead))
	end := bytes.IndexByte(rest, '"')
	if !ok || end < 0 || end > 40 {
		return time.Time{}, false
	}
	at, err := time.Parse(time.RFC3339Nano, string(rest[:end]))
	return at, err == nil
}

// lastTime is the time of the last whole line, or the zero time.
func lastTime(f *os.File) (time.Time, error) {
	info, err := f.Stat()
	if err != nil {
		return time.Time{}, err
	}
	for size := int64(16 << 10); ; size *= 8 {
		from := max(0, info.Size()-size)
		data := make([]byte, info.Size()-from)
		if _, err := f.ReadAt(data, from); err != nil && !errors.Is(err, io.EOF) {
			return time.Time{}, err
		}
		lines := bytes.Split(data, []byte("\n"))
		for i := len(lines) - 1; i >= 0 && (i > 0 || from == 0); i-- {
			if at, ok := timeOf(lines[i]); ok {
				return at, nil
			}
		}
		if from == 0 {
			return time.Time{}, nil
		}
	}
}

// Query picks events of transcripts; a zero field picks all.
type Query struct {
	Run, Agent string
	Task       string // or a path above it
	From, To   time.Time
	Kinds      []string
	Text       string // that the line contains, as it stands in the file
}

// Transcripts lists the transcripts that a query needs, sorted.
func (q Query) Transcripts(state string) ([]string, error) {
	run, agent := q.Run, q.Agent
	if run == "" {
		run = "*"
	}
	if agent == "" {
		agent = "*"
	}
	files, err := filepath.Glob(TranscriptPath(state, run, agent))
	if err != nil {
		return nil, fmt.Errorf("list transcripts: %w", err)
	}
	sort.Strings(files)
	return files, nil
}

// Events gives what a query picks of one transcript, in order. It reads from the
// moment From on, and no further than To.
func (q Query) Events(path string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if err := q.events(path, func(e Event) bool { return yield(e, nil) }); err != nil {
			yield(Event{}, fmt.Errorf("read transcript %q: %w", path, err))
		}
	}
}

func (q Query) events(path string, take func(Event) bool) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it is only read
	from, err := seek(f, q.From)
	if err != nil {
		return err
	}
	return q.scan(f, from, take)
}

// scan gives what a query picks from an offset on, where a line begins.
func (q Query) scan(f *os.File, from int64, take func(Event) bool) error {
	in := bufio.NewReaderSize(io.NewSectionReader(f, from, 1<<62), 64<<10)
	task, err := taskAt(f, from)
	if err != nil {
		return err
	}
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil // the rest is being written, or torn
		}
		if err != nil {
			return err
		}
		if at, ok := timeOf(line); ok && !q.To.IsZero() && at.After(q.To) {
			return nil
		}
		if !q.mayPick(line) && !bytes.Contains(line, []byte(startMark)) {
			continue
		}
		var e Event
		if json.Unmarshal(line, &e) != nil {
			continue // torn
		}
		if e.Kind == EventStart {
			task = e.Task
		}
		if e.Task == "" {
			e.Task = task
		}
		if q.picks(e) && q.mayPick(line) && !take(e) {
			return nil
		}
	}
}

// mayPick looks at a line without decoding it.
func (q Query) mayPick(line []byte) bool {
	if q.Text != "" && !bytes.Contains(line, []byte(q.Text)) {
		return false
	}
	for _, kind := range q.Kinds {
		if bytes.Contains(line, []byte(`,"kind":"`+kind+`"`)) {
			return true
		}
	}
	return len(q.Kinds) == 0
}

func (q Query) picks(e Event) bool {
	return (q.Task == "" || e.Task == q.Task || strings.HasPrefix(e.Task, q.Task+"/")) && !e.At.Before(q.From)
}

// taskAt is the task that an agent had at an offset of its transcript.
func taskAt(f *os.File, offset int64) (string, error) {
	const block = 32 << 10
	data := make([]byte, block)
	for end := offset; end > 0; {
		from := max(0, end-block)
		n, err := f.ReadAt(data[:end-from], from)
		if err != nil {
			return "", ignoreEOF(err)
		}
		part := data[:n]
		for {
			at := lastIndex(part, startMark)
			if at < 0 {
				break
			}
			if e, ok, err := eventAround(f, from+int64(at), offset); err != nil || ok {
				return e.Task, err
			}
			part = part[:at] // torn, or no more than a text
		}
		if from == 0 {
			break
		}
		end = from + int64(len(startMark)) - 1 // the mark may lie across
	}
	return "", nil
}

// lastIndex is bytes.LastIndex, by the much faster way forwards.
func lastIndex(data []byte, mark string) int {
	last := -1
	for from := 0; ; {
		at := bytes.Index(data[from:], []byte(mark))
		if at < 0 {
			return last
		}
		last = from + at
		from = last + 1
	}
}

// eventAround is the start of an episode whose mark stands at an offset of a file, on
// a line that ends before end.
func eventAround(f *os.File, offset, end int64) (e Event, ok bool, err error) {
	from := max(0, offset-maxHead)
	head := make([]byte, offset-from)
	if _, err := f.ReadAt(head, from); err != nil {
		return e, false, ignoreEOF(err)
	}
	feed := bytes.LastIndexByte(head, '\n')
	if feed < 0 && from > 0 {
		return e, false, nil
	}
	from += int64(feed + 1)
	line, err := bufio.NewReader(io.NewSectionReader(f, from, end-from)).ReadBytes('\n')
	if err != nil {
		return e, false, ignoreEOF(err)
	}
	return e, json.Unmarshal(line, &e) == nil && e.Kind == EventStart, nil
}

// maxHead is more than what stands before the kind of an event: its time and its agent.
const maxHead = 1 << 10

// Newest gives the last events of a transcript that a query picks, n at most, in order.
// It reads back from the end, or from the moment To, no further than it needs.
func (q Query) Newest(path string, n int) ([]Event, error) {
	found, err := q.newest(path, n)
	if err != nil {
		return nil, fmt.Errorf("read transcript %q: %w", path, err)
	}
	return found, nil
}

func (q Query) newest(path string, n int) ([]Event, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it is only read
	first, err := seek(f, q.From)
	if err != nil {
		return nil, err
	}
	end, err := f.Seek(0, io.SeekEnd)
	if err == nil && !q.To.IsZero() {
		end, err = seek(f, q.To.Add(1))
	}
	if err != nil || end <= first {
		return nil, err
	}
	for size := min(int64(n), 1<<30)*usualLine + 4<<10; ; size *= 4 {
		from := first
		if end-size > first {
			start, _, ok, err := lineFrom(f, end-size, end)
			if err != nil {
				return nil, err
			}
			if !ok { // one very long line
				continue
			}
			from = start
		}
		var found []Event
		if err := q.scan(f, from, func(e Event) bool { found = append(found, e); return true }); err != nil {
			return nil, err
		}
		if len(found) >= n || from == first {
			return found[max(0, len(found)-n):], nil
		}
	}
}

// usualLine is about how many bytes an event is on disk.
const usualLine = 256

// seek is the offset of the first line that is not before a moment.
func seek(f *os.File, from time.Time) (int64, error) {
	if from.IsZero() {
		return 0, nil
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	low, high := int64(0), info.Size() // lines that begin before low are too old; one that begins at high or later is not
	for low < high {
		middle := low + (high-low)/2
		start, at, ok, err := lineFrom(f, middle, high)
		if err != nil {
			return 0, err
		}
		switch {
		case !ok:
			high = middle // no whole line begins between middle and high
		case at.Before(from):
			low = start + 1
		default:
			high = middle
		}
	}
	// low lies within the last line that is too old, or at the very beginning.
	if low == 0 {
		return 0, nil
	}
	start, _, ok, err := lineFrom(f, low, info.Size())
	if err != nil || !ok {
		return info.Size(), err
	}
	return start, nil
}

// lineFrom is the first line with a time that begins at an offset or after it,
// and before the end.
func lineFrom(f *os.File, offset, end int64) (start int64, at time.Time, ok bool, err error) {
	start = offset
	if offset > 0 {
		start-- // a line begins here if a line feed stands before it
	}
	in := bufio.NewReaderSize(io.NewSectionReader(f, start, 1<<62), 4<<10)
	if offset > 0 {
		n, err := skipLine(in)
		if start += n; err != nil {
			return 0, at, false, ignoreEOF(err)
		}
	}
	for start < end {
		head, err := in.Peek(64)
		if len(head) == 0 {
			return 0, at, false, ignoreEOF(err)
		}
		if at, ok := timeOf(head); ok {
			return start, at, true, nil
		}
		n, err := skipLine(in)
		if start += n; err != nil {
			return 0, at, false, ignoreEOF(err)
		}
	}
	return 0, at, false, nil
}

// skipLine reads past the next line feed and counts the bytes.
func skipLine(in *bufio.Reader) (n int64, err error) {
	for {
		part, err := in.ReadSlice('\n')
		n += int64(len(part))
		if !errors.Is(err, bufio.ErrBufferFull) {
			return n, err
		}
	}
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
