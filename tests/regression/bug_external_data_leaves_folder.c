// SPDX-License-Identifier: Apache-2.0
// A model in a folder with a symbolic link that leads out of it could read any file as a weight, and hand it out with
// the copy that training exports. With a kernel that keeps the path below the folder, and with sandboxes that do not
// let it.
#define _DEFAULT_SOURCE  // syscall
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "onnx_builder.h"

static char root[64];
static char model[128];
static const float secret[6] = {1, 2, 3, 4, 5, 6};

static void write_file(const char *name, const void *data, size_t size)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static void link_to(const char *to, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, name);
    assert_int_equal(symlink(to, path), 0);
}

static int set_up(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/ckm-test-external-XXXXXX");
    if (mkdtemp(root) == NULL) {
        return -1;
    }
    char path[128];
    snprintf(path, sizeof path, "%s/model", root);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(model, sizeof model, "%s/model/net.onnx", root);
    write_file("secret.bin", secret, sizeof secret);
    write_file("model/w.bin", secret, sizeof secret);
    link_to("w.bin", "model/inside");
    link_to("../secret.bin", "model/file_out");
    link_to("..", "model/folder_out");
    snprintf(path, sizeof path, "%s/secret.bin", root);
    link_to(path, "model/absolute");
    snprintf(path, sizeof path, "%s/model/pipe", root);
    assert_int_equal(mkfifo(path, 0600), 0);
    return 0;
}

static int tear_down(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

static void write_model(const char *location)
{
    // external_data, field 13: a pair of key, field 1, and value, field 2
    uint8_t pair[128];
    size_t n = strlen(location);
    pair[0] = (uint8_t)(12 + n);
    memcpy(pair + 1, "\x0a\x08location\x12", 11);
    pair[12] = (uint8_t)n;
    memcpy(pair + 13, location, n);
    ProtobufCMessageUnknownField field = {13, PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED, 13 + n, pair};
    onnx_builder *b = ob_create(17);
    ob_input(b, "x", OB_FLOAT, "2,3");
    CkmOnnx__TensorProto *tensor = ob_external(b, "w", "3,2");
    tensor->base.n_unknown_fields = 1;
    tensor->base.unknown_fields = &field;
    ob_node(b, "MatMul", "x,w", "y");
    ob_output(b, "y");
    uint8_t *data;
    size_t size;
    ob_pack(b, &data, &size);
    write_file("model/net.onnx", data, size);
    free(data);
    ob_free(b);
}

static ckm_status read_weight(float *got, ckm_error *err)
{
    static const ckm_shape shape = {2, {3, 2}};
    ckm_import_values *values = NULL;
    bool found = false;
    ckm_status status = ckm_import_values_open(model, NULL, &values, err);
    if (status == CKM_OK) {
        status = ckm_import_values_read(values, "w", CKM_F32, &shape, got, &found, err);
    }
    ckm_import_values_close(values);
    return status == CKM_OK && !found ? CKM_ERR_NOT_FOUND : status;
}

static const struct {
    const char *location;
    ckm_status status;
    const char *why;
} cases[] = {
    {"w.bin", CKM_OK, ""},
    {"inside", CKM_OK, ""},
    {"file_out", CKM_ERR_FORMAT, "a symbolic link leads out of the model's folder"},
    {"folder_out/secret.bin", CKM_ERR_FORMAT, "a symbolic link leads out of the model's folder"},
    {"absolute", CKM_ERR_FORMAT, "a symbolic link leads out of the model's folder"},
    {"../secret.bin", CKM_ERR_FORMAT, "not a file below the model's folder"},
    {"/etc/passwd", CKM_ERR_FORMAT, "not a file below the model's folder"},
    {"pipe", CKM_ERR_IO, "is a pipe, not a file (values of tensor \"w\")"},
    {"none", CKM_ERR_IO, "No such file or directory (values of tensor \"w\")"},
};

// 0: every case came out as it should.
static int try_all(void)
{
    alarm(20);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        float got[6] = {0};
        ckm_error err = CKM_ERROR_INIT;
        write_model(cases[i].location);
        ckm_status status = read_weight(got, &err);
        bool same = memcmp(got, secret, sizeof got) == 0;
        bool named = status == CKM_OK || (strstr(err.message, "\"w\"") != NULL && strstr(err.file, "model/") != NULL);
        if (status != cases[i].status || strstr(err.message, cases[i].why) == NULL || same != (status == CKM_OK) ||
            !named) {
            print_message("%s: status %d, %s: %s\n", cases[i].location, (int)status, err.file, err.message);
            return 1;
        }
    }
    alarm(0);
    return 0;
}

static void links_that_lead_out_are_refused(void **state)
{
    (void)state;
    assert_int_equal(try_all(), 0);
}

// A sandbox that answers openat2 with this error, in a separate process.
static void with_openat2_refused(unsigned reason)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | reason),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
            _exit(77);
        }
        bool refused = syscall(SYS_openat2, -1, "", NULL, 0) < 0 && errno == (int)reason;
        _exit(refused ? try_all() : 2);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        print_message("skipped: this system does not let processes restrict themselves\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void so_they_are_by_older_kernels(void **state)
{
    (void)state;
    with_openat2_refused(ENOSYS);
}

static void so_they_are_in_sandboxes(void **state)
{
    (void)state;
    with_openat2_refused(EPERM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_that_lead_out_are_refused),
        cmocka_unit_test(so_they_are_by_older_kernels),
        cmocka_unit_test(so_they_are_in_sandboxes),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
