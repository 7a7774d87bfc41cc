#!/bin/bash
# Spark on Kubernetes starts its pods with "driver ..." or "executor" and says the rest in variables. Anything else is a command.
set -eu
role=${1:-}
if [ "$role" != driver ] && [ "$role" != executor ]; then
  exec "$@"
fi
shift
SPARK_HOME=${SPARK_HOME:-$(python -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))')}
PYSPARK_PYTHON=${PYSPARK_PYTHON:-$(command -v python)}
export SPARK_HOME PYSPARK_PYTHON PYSPARK_DRIVER_PYTHON=${PYSPARK_DRIVER_PYTHON:-$PYSPARK_PYTHON}
if [ "$role" = driver ]; then
  exec "$SPARK_HOME/bin/spark-submit" --deploy-mode client \
    --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \
    --conf "spark.executorEnv.SPARK_DRIVER_POD_IP=$SPARK_DRIVER_BIND_ADDRESS" "$@"
fi
options=()
for ((number = 0; ; number++)); do
  name=SPARK_JAVA_OPT_$number
  [ -n "${!name+set}" ] || break
  options+=("${!name}")
done
classes="${SPARK_CONF_DIR:-$SPARK_HOME/conf}:$SPARK_HOME/jars/*${SPARK_CLASSPATH:+:$SPARK_CLASSPATH}"
exec "${JAVA_HOME:+$JAVA_HOME/bin/}java" "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" -cp "$classes" \
  org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
  --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
  --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
  --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
