/* The part of engine_frame.py that runs in the guest.
 *
 *     frame_log pause ADDRESS MICROSECONDS WORD    # pause the guest by the device at ADDRESS, twice, and print WORD before; in real time, so that
 *                                                  # senders of any speed run in between, and no other program
 *     frame_log lines                              # the addresses of all BPF programs: "ADDRESS FILE LINE" where a line begins, "ADDRESS begin NAME"
 *                                                  # and "ADDRESS end -" around each function
 */
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/btf.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static long bpf(int command, union bpf_attr *attr)
{
	return syscall(SYS_bpf, command, attr, sizeof(*attr));
}

static int info_of(int fd, void *info, unsigned int length)
{
	union bpf_attr attr = {.info = {.bpf_fd = fd, .info_len = length, .info = (unsigned long)info}};

	return bpf(BPF_OBJ_GET_INFO_BY_FD, &attr);
}

static char *strings_of(unsigned int id)
{
	union bpf_attr attr = {.btf_id = id};
	struct bpf_btf_info info = {};
	struct btf_header *header;
	int fd = bpf(BPF_BTF_GET_FD_BY_ID, &attr);
	char *data;

	if (fd < 0 || info_of(fd, &info, sizeof(info)))
		return NULL;
	data = malloc(info.btf_size);
	info = (struct bpf_btf_info){.btf = (unsigned long)data, .btf_size = info.btf_size};
	if (!data || info_of(fd, &info, sizeof(info)))
		return NULL;
	header = (struct btf_header *)data;
	return data + header->hdr_len + header->str_off;
}

static int show(int fd)
{
	struct bpf_prog_info sizes = {}, info = {};
	struct bpf_line_info *lines;
	unsigned long *addresses, *begins;
	unsigned int *lengths;
	char *strings;

	if (info_of(fd, &sizes, sizeof(sizes)) || !(strings = strings_of(sizes.btf_id)))
		return 1;
	lines = calloc(sizes.nr_line_info, sizeof(*lines));
	addresses = calloc(sizes.nr_jited_line_info, sizeof(*addresses));
	begins = calloc(sizes.nr_jited_ksyms, sizeof(*begins));
	lengths = calloc(sizes.nr_jited_func_lens, sizeof(*lengths));
	info.nr_line_info = sizes.nr_line_info, info.line_info = (unsigned long)lines, info.line_info_rec_size = sizeof(*lines);
	info.nr_jited_line_info = sizes.nr_jited_line_info, info.jited_line_info = (unsigned long)addresses;
	info.jited_line_info_rec_size = sizeof(*addresses);
	info.nr_jited_ksyms = sizes.nr_jited_ksyms, info.jited_ksyms = (unsigned long)begins;
	info.nr_jited_func_lens = sizes.nr_jited_func_lens, info.jited_func_lens = (unsigned long)lengths;
	if (info_of(fd, &info, sizeof(info)))
		return 1;
	for (unsigned int i = 0; i < info.nr_jited_line_info; i++)
		printf("%lx %s %u\n", addresses[i], strings + lines[i].file_name_off, lines[i].line_col >> 10);
	for (unsigned int i = 0; i < info.nr_jited_ksyms; i++)
		printf("%lx begin %s\n%lx end -\n", begins[i], info.name, begins[i] + lengths[i]);
	return 0;
}

static int show_all(void)
{
	union bpf_attr attr = {};

	while (!bpf(BPF_PROG_GET_NEXT_ID, &attr)) {
		union bpf_attr of = {.prog_id = attr.next_id};
		int fd = bpf(BPF_PROG_GET_FD_BY_ID, &of);

		if (fd >= 0) {
			show(fd);
			close(fd);
		}
		attr = (union bpf_attr){.start_id = attr.next_id};
	}
	return 0;
}

static int pause_twice(unsigned long address, unsigned long us, const char *word)
{
	struct sched_param first = {.sched_priority = 50};
	int memory = open("/dev/mem", O_RDWR | O_SYNC);
	long page = sysconf(_SC_PAGESIZE);
	volatile char *device = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, memory, address & -page);

	if (device == MAP_FAILED || sched_setscheduler(0, SCHED_FIFO, &first))
		return 1;
	device += address & (page - 1);
	dprintf(1, "%s\n", word);
	*device = 1;
	usleep(us);
	dprintf(1, "%s\n", word);
	*device = 1;
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 5 && !strcmp(argv[1], "pause"))
		return pause_twice(strtoul(argv[2], NULL, 0), strtoul(argv[3], NULL, 0), argv[4]);
	return argc == 2 && !strcmp(argv[1], "lines") ? show_all() : 2;
}
