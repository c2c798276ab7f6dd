package gate

import "bytes"

// pointerMark begins what Git LFS commits in place of a file's content, and
// maxPointer bounds its size (specification of Git LFS, docs/spec.md there).
const (
	pointerMark = "version https://git-lfs.github.com/spec/"
	maxPointer  = 1024
)

func isPointer(data []byte) bool {
	return len(data) <= maxPointer && bytes.HasPrefix(data, []byte(pointerMark))
}

// large judges a file that Git LFS might keep: one that is a pointer, was one, or
// is not text. Others are not looked up, as every look costs. It reports whether
// it looked.
func (l *landing) large(f file) (looked bool, err error) {
	if fixture(f.path) {
		return false, nil
	}
	pointer, was := isPointer(f.now), false
	if !pointer && plainFile(f.old) {
		size, err := l.Repo.Size(f.old.Hash)
		if err != nil {
			return false, err
		}
		was = size <= maxPointer && isPointer(f.before())
	}
	if !pointer && !was && !isBinary(f.now) {
		return false, nil
	}
	return true, l.stored(f.change, !pointer, pointer)
}

// stored holds what a file is to what .gitattributes says of it. Where Git LFS is
// not installed git commits such a file as it is, and where the attribute is
// missing a pointer is all that anyone gets.
func (l *landing) stored(c change, content, pointer bool) error {
	if l.skipped("lfs", c.path) {
		return nil
	}
	_, filter, err := l.attributesOf(c.path)
	if err != nil {
		return err
	}
	switch {
	case content && filter == "lfs":
		l.find("lfs", c.path, "is kept by Git LFS (.gitattributes), and the change holds its content: commit it where git-lfs is installed (git lfs install; git add --renormalize), or take the path out of .gitattributes")
	case pointer && filter != "lfs":
		l.find("lfs", c.path, "is a pointer of Git LFS, and .gitattributes does not give the path to it (filter=lfs): commit the content, or add the attribute in the same change")
	}
	return nil
}
