// meter_test.c -- meters over a file system that is made here.
#include "energy/meter.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[64];

static const char *at(const char *name) {
  static char path[4][METER_PATH];
  static int turn;
  turn = (turn + 1) % 4;
  snprintf(path[turn], sizeof path[turn], "%s/%s", root, name);
  return path[turn];
}

static void put(const char *name, const char *text) {
  char path[METER_PATH];
  snprintf(path, sizeof path, "%s", at(name));
  for (char *p = path + strlen(root) + 1; (p = strchr(p, '/')); p++) {
    *p = 0;
    (void)mkdir(path, 0755);
    *p = '/';
  }
  FILE *f = fopen(path, "w");
  EXPECT(f);
  if (f) fputs(text, f), fclose(f);
}

static void begin(void) {
  strcpy(root, "/tmp/tenon-meter-XXXXXX");
  EXPECT(mkdtemp(root));
}

static void end(void) {
  static const char *const made[] = {"sys/class/powercap/intel-rapl:0/name",
                                     "sys/class/powercap/intel-rapl:0/energy_uj",
                                     "sys/class/powercap/intel-rapl:0/max_energy_range_uj",
                                     "sys/class/powercap/intel-rapl:0",
                                     "sys/class/powercap/intel-rapl:0:0/name",
                                     "sys/class/powercap/intel-rapl:0:0/energy_uj",
                                     "sys/class/powercap/intel-rapl:0:0",
                                     "sys/class/powercap/intel-rapl:1/name",
                                     "sys/class/powercap/intel-rapl:1",
                                     "sys/class/powercap",
                                     "sys/class/hwmon/hwmon3/energy2_label",
                                     "sys/class/hwmon/hwmon3/energy2_input",
                                     "sys/class/hwmon/hwmon3/energy1_label",
                                     "sys/class/hwmon/hwmon3/energy1_input",
                                     "sys/class/hwmon/hwmon3",
                                     "sys/class/hwmon",
                                     "sys/class",
                                     "sys"};
  for (int i = 0; i < ARRAY_LEN(made); i++)
    if (remove(at(made[i]))) continue;
  EXPECT_INT_EQ(rmdir(root), 0);
}

static void put_package(const char *energy) {
  put("sys/class/powercap/intel-rapl:0/name", "package-0\n");
  put("sys/class/powercap/intel-rapl:0/max_energy_range_uj", "1000000\n");
  put("sys/class/powercap/intel-rapl:0/energy_uj", energy);
  put("sys/class/powercap/intel-rapl:0:0/name", "core\n");  // a part of it
  put("sys/class/powercap/intel-rapl:0:0/energy_uj", "999\n");
  put("sys/class/powercap/intel-rapl:1/name", "psys\n");  // no package
}

static bool near(double a, double b) { return a > b - 1e-9 && a < b + 1e-9; }

TEST(meter_powercap_counts_packages_and_starts_again) {
  static Diag d;
  Meter m;
  double j;
  begin();
  diag_init(&d);
  put_package("400000\n");
  EXPECT_STATUS(meter_open(&m, root, false, &d), TENON_OK);
  EXPECT_STR_EQ(m.row->name, "powercap");
  EXPECT_INT_EQ(m.n, 1);
  put("sys/class/powercap/intel-rapl:0/energy_uj", "900000\n");
  EXPECT_STATUS(meter_read(&m, &d, &j), TENON_OK);
  EXPECT(near(j, 0.5));
  put("sys/class/powercap/intel-rapl:0/energy_uj", "100000\n");  // behind its range
  EXPECT_STATUS(meter_read(&m, &d, &j), TENON_OK);
  EXPECT(near(j, 0.7));
  put("sys/class/powercap/intel-rapl:0/energy_uj", "much\n");
  EXPECT_STATUS(meter_read(&m, &d, &j), TENON_EIO);
  meter_close(&m);
  end();
}

TEST(meter_hwmon_counts_sockets) {
  static Diag d;
  Meter m;
  double j;
  begin();
  diag_init(&d);
  put("sys/class/hwmon/hwmon3/energy1_label", "Ecore000\n");
  put("sys/class/hwmon/hwmon3/energy1_input", "1\n");
  put("sys/class/hwmon/hwmon3/energy2_label", "Esocket0\n");
  put("sys/class/hwmon/hwmon3/energy2_input", "5000000\n");
  EXPECT_STATUS(meter_open(&m, root, false, &d), TENON_OK);
  EXPECT_STR_EQ(m.row->name, "hwmon");
  put("sys/class/hwmon/hwmon3/energy2_input", "7500000\n");
  EXPECT_STATUS(meter_read(&m, &d, &j), TENON_OK);
  EXPECT(near(j, 2.5));
  put("sys/class/hwmon/hwmon3/energy2_input", "1\n");  // it never starts again
  EXPECT_STATUS(meter_read(&m, &d, &j), TENON_EIO);
  meter_close(&m);
  end();
}

TEST(meter_says_what_is_missing) {
  static Diag d;
  Meter m;
  begin();
  diag_init(&d);
  EXPECT_STATUS(meter_open(&m, root, false, &d), TENON_EUNSUPPORTED);
  EXPECT(strstr(d.text, "powercap") && strstr(d.text, "hwmon") && strstr(d.text, "perf"));
  diag_init(&d);
  put_package("4\n");
  put("sys/class/powercap/intel-rapl:0/energy_uj", "-4\n");
  EXPECT_STATUS(meter_open(&m, root, false, &d), TENON_EUNSUPPORTED);
  EXPECT(strstr(d.text, "cannot be read"));
  end();
}
