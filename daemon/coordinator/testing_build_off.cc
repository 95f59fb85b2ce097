#include "daemon/coordinator/testing_build.h"

namespace pipework {

const bool kTestingBuild = false;

}  // namespace pipework
